/* Traffic policies: JSON or YAML documents that are stored, checked for their outer shape. */
#pragma once

/* NULL when fine, else the fault. Takes time in proportion to the text, whatever is in it. */
const char *policy_fault(const char *text);
