"""Reports: terminal table, CSV, figures, page and progress.

They are made from results as text and files.
"""
