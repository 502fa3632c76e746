"""solver/axes"""
