"""What the field subtracts from photos and divides them by: mean and standard deviation of ImageNet, RGB in [0, 1]."""

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
