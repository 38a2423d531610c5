"""From probabilities to answers: hedged labels in a taxonomy and prediction sets, with the promises they keep."""
