// Outline.cpp
#pragma once
#include <nanobind/nanobind.h>

void addOutline(nanobind::module_ &m);
