"""solver/cost"""
