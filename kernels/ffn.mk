# TwELL and the cpu backend's feed-forward layer.
