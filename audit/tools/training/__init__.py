"""Audits of training runs by `audit_training`, and tests of DP-SGD without training by `check_training`."""

from epsaudit.tools.training.auditing import audit_training, learnt, losses, products
from epsaudit.tools.training.canaries import Canaries, blank, dirac_gradients, mislabelled, random_gradients
from epsaudit.tools.training.checking import TrainingCheck, check_training
from epsaudit.tools.training.dpsgd import DPSGDTrainer, Trained
from epsaudit.tools.training.jax_models import JaxPrivacyTrainer
from epsaudit.tools.training.library_steps import jax_privacy_step, opacus_step
from epsaudit.tools.training.step_tests import Part
from epsaudit.tools.training.torch_models import OpacusTrainer

__all__ = [
    "Canaries",
    "DPSGDTrainer",
    "JaxPrivacyTrainer",
    "OpacusTrainer",
    "Part",
    "Trained",
    "TrainingCheck",
    "audit_training",
    "blank",
    "check_training",
    "dirac_gradients",
    "jax_privacy_step",
    "learnt",
    "losses",
    "mislabelled",
    "opacus_step",
    "products",
    "random_gradients",
]
