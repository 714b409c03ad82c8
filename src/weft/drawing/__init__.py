"""Programs in words and in pictures: nodes that are alike become one box, channels that are alike one arrow."""
