# Man pages are printed by the program from its table of commands.
TW_MAN_COMMANDS = info tokenize profile merge bench runs sql figure diff neuron fsck \
	import
TW_MANS = doc/twellscope.1 $(TW_MAN_COMMANDS:%=doc/twellscope-%.1)
man_MANS = $(TW_MANS)
CLEANFILES += $(TW_MANS)
EXTRA_DIST += %reldir%/FAMILIES.md %reldir%/FORMAT.md %reldir%/FORMATS.md \
	%reldir%/TOKENIZERS.md %reldir%/bench.md %reldir%/layers.png \
	%reldir%/tutorial.md
EXTRA_DIST += %reldir%/CLUSTER.md %reldir%/CUDA.md

$(TW_MANS): twellscope$(EXEEXT)
	$(AM_V_GEN)$(MKDIR_P) doc && \
	name=`echo $@ | $(SED) 's,doc/twellscope-*,,; s,\.1$$,,'`; \
	./twellscope$(EXEEXT) help --man $$name >$@.tmp && mv $@.tmp $@
