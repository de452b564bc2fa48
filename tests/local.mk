# Each room's tests stand in tests/ROOM.mk; here what belongs to none.
AM_TESTS_ENVIRONMENT = top_srcdir=$(top_srcdir); export top_srcdir; \
	top_builddir=$(top_builddir); export top_builddir; \
	TW_SHARED=$${TW_SHARED:-$(abs_top_srcdir)/../shared}; export TW_SHARED;
dist_check_SCRIPTS = %reldir%/check_layers.sh %reldir%/check_headers.sh
TESTS += $(dist_check_SCRIPTS)
include tests/base.mk
include tests/kernels.mk
include tests/emu.mk
include tests/db.mk
include tests/analysis.mk
include tests/load.mk
include tests/text.mk
include tests/model.mk
include tests/run.mk
include tests/cmd.mk
