// Puts a link to a part of the page into the address bar, a text field and, where that may be written, the
// clipboard; a sentence says where it is.
export async function copy(hash, field) {
  const url = new URL(location.href);
  url.hash = hash;
  history.replaceState(null, "", url.hash);
  field.value = url.href;
  field.select();
  try {
    await navigator.clipboard.writeText(url.href);
    return "The link to this state has been copied.";
  } catch { return "The link to this state is in the address bar."; }
}
