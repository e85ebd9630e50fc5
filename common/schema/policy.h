/* Traffic policies: JSON or YAML documents that are stored, checked for their outer shape. */
#pragma once

/* NULL when the policy is valid, else what is wrong. Takes time linear in the text's length. */
const char *policy_fault(const char *text);
