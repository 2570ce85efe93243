from hushtune.review.comparison import Arm as Arm
from hushtune.review.comparison import Comparison as Comparison
from hushtune.review.comparison import compare as compare
from hushtune.review.pages import report as report
from hushtune.review.planning import plan as plan
from hushtune.review.verification import verify as verify
