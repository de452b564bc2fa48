#!/bin/sh
# scripts/verify_kills with 8 kills.
exec "${top_srcdir:-.}/scripts/verify_kills" 8
