"""Reports: tables, figures, an HTML page, the methods paragraphs of a paper, scripts that reproduce findings."""
