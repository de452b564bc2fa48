# Figures: a query and a drawing each, found below pkgdatadir.
nobase_dist_pkgdata_DATA += \
	%reldir%/theme.gp \
	%reldir%/breakeven.gp %reldir%/breakeven.sql \
	%reldir%/paper/README.md %reldir%/paper/fig03_accuracy_nnz.csv \
	%reldir%/paper/fig04_inference.csv \
	%reldir%/dead_curve.gp %reldir%/dead_curve.sql \
	%reldir%/layers.gp %reldir%/layers.sql \
	%reldir%/neurons.gp %reldir%/neurons.sql \
	%reldir%/positions.gp %reldir%/positions.sql \
	%reldir%/tiles.gp %reldir%/tiles.sql \
	%reldir%/tokens.gp %reldir%/tokens.sql
