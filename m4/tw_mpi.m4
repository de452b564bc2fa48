# TW_CHECK_MPI
# --with-mpi=auto|no|yes|DIR: Open MPI, by its own compiler wrapper.  auto: a
# missing one is a notice; yes or DIR: it is an error.  Touches no user flag.
AC_DEFUN([TW_CHECK_MPI], [
AC_ARG_WITH([mpi], [AS_HELP_STRING([--with-mpi=DIR],
  [Open MPI to use: auto, no, yes or a directory @<:@auto@:>@])], [], [with_mpi=auto])
tw_mpi=no
AS_IF([test "x$with_mpi" != xno], [
  AS_CASE([$with_mpi],
    [auto|yes], [tw_path=$PATH],
    [tw_path=$with_mpi/bin])  # a directory named by the user is searched alone
  AC_PATH_PROG([MPICC], [mpicc], [], [$tw_path])
  AS_IF([test -n "$MPICC"], [
    MPI_CPPFLAGS=`$MPICC --showme:compile 2>/dev/null`
    MPI_LIBS=`$MPICC --showme:link 2>/dev/null`
    AC_CACHE_CHECK([whether Open MPI links], [tw_cv_mpi_works], [
      tw_save_CPPFLAGS=$CPPFLAGS tw_save_LIBS=$LIBS
      CPPFLAGS="$CPPFLAGS $MPI_CPPFLAGS" LIBS="$MPI_LIBS $LIBS"
      AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <mpi.h>]],
          [[return MPI_Init(0, 0) + OMPI_MAJOR_VERSION;]])],
        [tw_cv_mpi_works=yes], [tw_cv_mpi_works=no])
      CPPFLAGS=$tw_save_CPPFLAGS LIBS=$tw_save_LIBS])
    tw_mpi=$tw_cv_mpi_works])
  AS_IF([test "x$tw_mpi" = xno && test "x$with_mpi" != xauto],
        [AC_MSG_ERROR([--with-mpi=$with_mpi given, but no working Open MPI: see config.log])])])
AC_SUBST([MPI_CPPFLAGS])
AC_SUBST([MPI_LIBS])
AM_CONDITIONAL([HAVE_MPI], [test "x$tw_mpi" = xyes])
])
