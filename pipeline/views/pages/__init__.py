"""HTML pages: those that builds write, that of a run, and those of the dashboard.

Pure: no clock, no files; imports core alone.

drawing   frame, tables and blocks of pages without a script; scales, and the SVG pieces of a chart
charts    charts of lines with marks and intervals, and charts with a row for each figure
document  the page of a run, as a file or followed live, with app.js and app.css in it; the door and the list of runs"""
