from hushtune.privacy.guarantee import Privacy as Privacy
from hushtune.privacy.ledger import Ledger as Ledger
from hushtune.privacy.policy import Policy as Policy
