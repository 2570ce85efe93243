from hushtune.training.central import fit as fit
from hushtune.training.dpsgd import DPSGD as DPSGD
from hushtune.training.fedavg import FedAvg as FedAvg
from hushtune.training.fedavg import Trained as Trained
from hushtune.training.fitted import Fitted as Fitted
from hushtune.training.strategies import RepeatAndSelect as RepeatAndSelect
from hushtune.training.strategies import TryAll as TryAll
from hushtune.training.strategies import Untuned as Untuned
