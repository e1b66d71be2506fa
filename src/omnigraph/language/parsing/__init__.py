"""The parsing kit: tokens with positions, a cursor that knows what it looked for, and what to say of a text that does not parse."""
