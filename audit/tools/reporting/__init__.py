"""Reports: tables, figures, a page, the methods paragraphs of a paper, and progress.

`page` and `methods` stand above results. The others read what they are given and import no result, so that a result
can draw itself by them.
"""
