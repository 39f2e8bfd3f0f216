// A formula wider than the screen scrolls inside itself. The keyboard can scroll it only if it can
// be reached, so it becomes a tab stop for as long as it is too wide. The theme does the same for code.
function reachWideFormulas() {
  for (const formula of document.querySelectorAll('mjx-container[display="true"]')) {
    if (formula.scrollWidth > formula.clientWidth) formula.tabIndex = 0;
    else formula.removeAttribute("tabindex");
  }
}

window.addEventListener("load", async () => {
  if (!window.MathJax?.startup) return;
  await MathJax.startup.promise;
  reachWideFormulas();
  window.addEventListener("resize", reachWideFormulas);
  // A formula in a folded part has no width until it is opened.
  document.addEventListener("toggle", reachWideFormulas, true);
});
