# Sources of this room.
noinst_LIBRARIES += libanalysis.a
libanalysis_a_SOURCES = \
	%reldir%/acc_batch.c %reldir%/acc_document.c %reldir%/acc_layer.c \
	%reldir%/acc_neuron.c %reldir%/acc_position.c %reldir%/acc_token.c \
	%reldir%/copy_profile.c %reldir%/finish_profile.c %reldir%/parity.c %reldir%/parity.h \
	%reldir%/profile.c %reldir%/profile.h \
	%reldir%/profile_internal.h %reldir%/restore_profile.c \
	%reldir%/save_layer.c %reldir%/save_total.c %reldir%/statistics.c \
	%reldir%/statistics.h %reldir%/store_profile.h
