"""Statistics of differences between two measurements: how sure an idea is to be better.

Pure: knows nothing of searches, files or specs, and imports nothing of ours.  `rule.weigh` judges all ideas of a depth
at once, `evidence.verdict` gives the verdict on one of them.  All numbers are the same on every machine and with every
numpy from 1.26 on; `distributions` says how.  noise and calibration import numpy at once, the others when they draw.

rule            the moderated rotation max-T: all ideas of a depth judged at once
evidence        the evidence on an idea, the verdict that follows, and the alpha of a depth
noninferiority  guards: metrics that may get worse by less than a margin
series          a measurement as one difference a block; blocks in time order; the noise that all ideas of a depth
                share: common variance, common skewness
distributions   normal numbers and random directions that are the same everywhere; Student's t
noise           measured noise, and depths of ideas without effect that are simulated from it
calibration     one cell of a calibration, simulated: how often a rule promotes noise, finds an effect; for that, the
                rule on many depths at once"""
