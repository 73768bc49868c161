#!/bin/sh
# Installs the course into .venv from the wheels beside this file. It needs Python and no network.
cd "$(dirname "$0")" || exit 1
sh tools/setup.sh .venv learner && echo "To open the course: make lab, or without make: sh tools/lab.sh .venv"
