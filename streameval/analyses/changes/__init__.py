"""Changes over days: did it get worse, and since when?"""
