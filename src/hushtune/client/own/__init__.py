"""What a part's arrays and tables look like: a function of the values of its own rows.

An array has one type for all rows, which any single row may change: one text turns numbers into texts, one missing
value turns integers into floats, one long text widens all. A part that kept that type would tell of rows that are
not its own. So types are found anew, from the part's own values, and by rules that do not depend on what they were:

- numbers, true and false among them, are int64 if all are whole and below 2**53, else float64 (or complex);
- texts that are just how Python writes a number are that number: "101", not "0101"; bytes in ASCII are texts;
- an array of texts is as wide as its longest one; values of different kinds make an array of objects;
- moments have the coarsest unit that holds them all;
- categories are those that occur, in the order of their values, or as their owner has ordered them;
- a table's rows are numbered anew; sparse rows hold no zeros; columns of pyarrow are one chunk, without a dictionary.

Lists stay as they are: their items have types of their own. So do tensors, other tables, and data that has a `take` of
its own: the type is their owner's word.
"""
