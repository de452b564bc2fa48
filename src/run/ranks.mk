# One run by several processes, and a run in a scratch folder.
librun_a_SOURCES += %reldir%/merge_corpora.c \
	%reldir%/ranks.c %reldir%/ranks.h %reldir%/ranks_internal.h \
	%reldir%/ranks_part.c %reldir%/ranks_run.c %reldir%/ranks_team.c \
	%reldir%/ranks_wire.h %reldir%/scratch.c %reldir%/scratch.h

# What ranks say to each other, a module for where MPI is.
if HAVE_MPI
mpimoduledir = $(pkglibdir)
mpimodule_PROGRAMS = twellscope-mpi.so
twellscope_mpi_so_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
twellscope_mpi_so_CFLAGS = $(AM_CFLAGS) -fPIC -fvisibility=hidden
twellscope_mpi_so_SOURCES = %reldir%/ranks_mpi.c
twellscope_mpi_so_LDFLAGS = $(AM_LDFLAGS) -shared
twellscope_mpi_so_LDADD = $(MPI_LIBS)
endif
