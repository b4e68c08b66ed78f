"""Real waters in numbers: charts read to segments of shore, and routes over the water between them; numpy and scipy."""
