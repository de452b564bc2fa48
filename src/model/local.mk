# Families, the resolved model, the forward pass.
noinst_LIBRARIES += libmodel.a
libmodel_a_SOURCES = \
	%reldir%/batch.c %reldir%/bind.c %reldir%/bind_form.c %reldir%/derive.c \
	%reldir%/facts.c %reldir%/families.c %reldir%/family.h \
	%reldir%/family_arcee.c %reldir%/family_persimmon.c \
	%reldir%/family_bloom.c %reldir%/family_falcon.c \
	%reldir%/family_gpt2.c %reldir%/family_gpt_neox.c \
	%reldir%/family_gptj.c %reldir%/family_nemotron.c \
	%reldir%/family_opt.c %reldir%/family_phi.c %reldir%/positions.c \
	%reldir%/family_cohere.c %reldir%/family_gemma.c \
	%reldir%/family_llama.c %reldir%/family_llama.h \
	%reldir%/family_mistral.c %reldir%/family_olmo2.c \
	%reldir%/family_phi3.c %reldir%/family_qwen.c %reldir%/family_qwen.h \
	%reldir%/family_scaled.c %reldir%/family_smollm3.c \
	%reldir%/family_sparse.c %reldir%/family_stablelm.c \
	%reldir%/forward.c %reldir%/forward.h %reldir%/memory.c \
	%reldir%/model.c %reldir%/model.h %reldir%/rope.c \
	%reldir%/rope_internal.h %reldir%/rope_scale.c %reldir%/runner.c \
	%reldir%/runner_internal.h %reldir%/timing.c %reldir%/windows.c
