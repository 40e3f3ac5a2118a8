"""Parts of HTML pages that are written once and open offline.

Pure: no clock, no files; imports core alone.

drawing   frame and tables of a page, scales, and the SVG pieces of a chart
charts    charts of lines with marks and intervals, and charts with a row for each figure
document  the page of a run as one HTML file, with app.js and app.css in it"""
