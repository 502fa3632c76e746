"""solver/search/cpsat"""
