// Applies the remembered theme before the first paint; a plain script, so that it runs at once.
// "light" and "dark" win over what the system prefers, anything else follows it.
(() => {
  let theme = "";
  try {
    theme = localStorage.getItem("mqlite.theme") ?? "";
  } catch {
    // A browser without storage follows the system.
  }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
