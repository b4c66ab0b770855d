// Lends each book of some subjects that is there to one reader, all at the same time, and says what went wrong.
const books = await tools.library.listBooks({ subjects: input.subjects, page: { size: input.most ?? 50 } });
const there = books.filter((book) => book.copies > 0);

const lent = await Promise.all(there.map(async (book) => {
  const args = { body: { book: book.id, reader: input.reader, due: input.due } };
  try {
    await tools.library.lend(args);
    return { title: book.title, lent: true };
  } catch (error) {
    return { title: book.title, lent: false, why: error.message };
  }
}));

return { lent: lent.filter((each) => each.lent).map((each) => each.title), failed: lent.filter((each) => !each.lent) };
