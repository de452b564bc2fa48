/* SQLite's interface for files that are built twice: into the program, and
 * with TW_EXTENSION into the loadable extension, whose calls go through the
 * table that the host hands over. */
#ifndef TW_DB_SQLITE_API_H
#define TW_DB_SQLITE_API_H

#ifdef TW_EXTENSION
#include <sqlite3ext.h>
#ifdef TW_EXTENSION_MAIN
SQLITE_EXTENSION_INIT1
#else
SQLITE_EXTENSION_INIT3
#endif
#else
#include <sqlite3.h>
#endif

#endif
