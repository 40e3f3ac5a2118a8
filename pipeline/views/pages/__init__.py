"""Parts of HTML pages that are written once and open offline.

Pure: no clock, no files; imports nothing of ours.

drawing  frame and tables of a page, scales, and the SVG pieces of a chart
charts   charts of lines with marks and intervals, and charts with a row for each figure"""
