# Families, the resolved model, the forward pass.
noinst_LIBRARIES += libmodel.a
libmodel_a_SOURCES = \
	%reldir%/bind.c %reldir%/families.c %reldir%/family.h \
	%reldir%/family_llama.c %reldir%/family_llama.h \
	%reldir%/family_llama_sparse.c %reldir%/memory.c %reldir%/model.c \
	%reldir%/model.h %reldir%/rope.c
