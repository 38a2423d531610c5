"""Why an answer was given: neighbors, records of past cases, novelty."""
