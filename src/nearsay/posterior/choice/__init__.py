"""Model choice by past cases: which posterior, k, metric and views, judged without the cases that chose them."""
