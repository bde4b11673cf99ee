"""Random programs of views and of arithmetic with positions: drawn, run, made smaller."""
