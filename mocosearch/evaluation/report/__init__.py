"""What an evaluation tells, as JSON and as one self-contained HTML file."""

from mocosearch.evaluation.report.contents import Contestant, Evaluation
from mocosearch.evaluation.report.page import check_report_path, write_report

__all__ = ["Contestant", "Evaluation", "check_report_path", "write_report"]
