"""Exploring: a session keeps models warm and answers the requests of the explorer's page."""
