// Sets the colours that the reader chose, before the page is shown. Furo has this script inline.
document.body.dataset.theme = localStorage.getItem("theme") || "auto";
