"""solver/search"""
