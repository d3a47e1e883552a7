"""Figures of a report, as plain data that plotly.js draws: in the HTML report and in the dashboard."""
