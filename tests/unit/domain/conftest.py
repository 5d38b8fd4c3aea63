"""Every rule that is run here is held to its row of `RULES`."""

from tests.support.held_to_rules import every_rule_keeps_to_its_row as every_rule_keeps_to_its_row
