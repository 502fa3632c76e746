"""solver/job"""
