// The scores of search results. They are Sphinx's own, but guides come before decisions and changes.
var Scorer = {
  score: ([page, , , , score]) => score - (/^(decisions\/|changelog)/.test(page) ? 4 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
