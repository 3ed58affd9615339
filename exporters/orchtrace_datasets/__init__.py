"""The formats of data sets, one small writer each, over `orchtrace_otel.datasets`.

Each is found by its entry point in the group `orchtrace.dataset`; nothing lists them here.
"""
